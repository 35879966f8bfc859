"""Pictures of one operator on one small input: as text, SVG and PNG, all from one scene."""
