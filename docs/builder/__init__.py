"""What the documentation site is made of besides its pages: see `extension`."""
