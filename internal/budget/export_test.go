package budget

// MaxWait is maxWait.
const MaxWait = maxWait
