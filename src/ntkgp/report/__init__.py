"""What any report is made of: intervals, claims, tables, figures, sections and a page of them."""
