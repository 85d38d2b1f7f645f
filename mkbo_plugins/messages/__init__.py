"""What users read: rows and names in messages, hints, progress, errors of commands."""
