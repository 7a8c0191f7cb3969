package plan

// SplitRows is the target number of rows of a split.
const SplitRows = splitRows
