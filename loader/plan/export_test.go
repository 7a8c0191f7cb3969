package plan

// SplitRows is how many rows tests fill a split with.
const SplitRows = splitRows
