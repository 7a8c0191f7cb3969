package batch

// FreeLimit is how much freed memory a pool keeps, in bytes.
const FreeLimit = freeLimit
