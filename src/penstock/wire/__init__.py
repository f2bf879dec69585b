"""What clients send and receive: parsing, shapes, and nothing that decides or runs."""
