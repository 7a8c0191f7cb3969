package function

import "slices"

// definitions returns all functions, in the order of the documentation.
func definitions() []definition {
	return slices.Concat(conditionals(), mathematics(), codeFunctions(), dateFunctions(), textFunctions(), listFunctions())
}
