"""Results files to tables and figures; nothing here trains."""
