"""The console's pages: server-rendered HTML over the operations that commands call too."""
