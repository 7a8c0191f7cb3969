package batch

// CanCast exports canCast to tests.
var CanCast = canCast
