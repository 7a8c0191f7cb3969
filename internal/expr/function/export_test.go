package function

// Bind is Table.Bind.
func Bind(name string, args []Argument) (Bound, error) { return NewTable().Bind(name, args) }
