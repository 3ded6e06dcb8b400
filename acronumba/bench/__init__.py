"""What the compiler is measured against, and the settings that make comparisons fair."""
