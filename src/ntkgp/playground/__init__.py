"""The playground: one page in which ensembles are trained beside their exact laws, by hand."""
