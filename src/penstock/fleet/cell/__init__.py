"""What the leading control process decides for all hosts: placement and rollouts."""
