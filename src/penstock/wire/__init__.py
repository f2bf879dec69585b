"""Parses and writes what clients send and receive; decides and runs nothing."""
