"""The toy problem at growing width."""
