"""HTTP in, answers out. Decides nothing about who, when or where: reads, calls, writes."""
