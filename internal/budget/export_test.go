package budget

// Patience is how long the tests expect to wait.
const Patience = patience
