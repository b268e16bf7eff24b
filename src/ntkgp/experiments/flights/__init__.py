"""Figure 2: flight delays under a shift in time."""
