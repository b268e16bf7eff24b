"""The paper's experiments, one module each: a frozen configuration in, a results file out."""
