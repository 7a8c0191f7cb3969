package datasettest

import "github.com/penstock/penstock/loader/dataset"

// Filter parses a valid filter, and panics if it is invalid.
func Filter(text string) dataset.Filter {
	f, err := dataset.ParseFilter(text)
	if err != nil {
		panic("datasettest: " + err.Error())
	}
	return f
}
