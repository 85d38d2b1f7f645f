"""What a covariance learned, in words and shares."""
