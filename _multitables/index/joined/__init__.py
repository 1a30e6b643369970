"""Datasets of many files as one, and manifests of such files."""
