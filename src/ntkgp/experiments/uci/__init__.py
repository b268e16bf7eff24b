"""Nine UCI regression sets."""
