package batch

// CanCast is what the tests of casts ask.
var CanCast = canCast
