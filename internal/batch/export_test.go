package batch

// FreeLimit is how much freed memory a pool keeps, in bytes.
const FreeLimit = freeLimit

// CanCast is what the tests of casts ask.
var CanCast = canCast
