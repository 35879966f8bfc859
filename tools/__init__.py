"""Tools for whoever works on halfulp; none of them is part of the package."""
