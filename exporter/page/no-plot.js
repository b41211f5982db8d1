// In place of dygraphs, where the build did not find it: the page shows tables only.
