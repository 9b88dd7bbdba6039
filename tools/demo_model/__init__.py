"""How the demo model in ``functions/vitascope/demo_model`` was trained and is measured; see README.md."""
