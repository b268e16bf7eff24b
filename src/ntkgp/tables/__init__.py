"""Tables as people have them: files and frames with numbers, words, dates and gaps."""
