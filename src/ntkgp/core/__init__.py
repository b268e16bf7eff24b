"""What every other part stands on: types, files, memory, progress, compilation. It knows no maths."""
