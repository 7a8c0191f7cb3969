// Package planpicture draws plans: how their rows are spread over buckets, lanes and files, and what the last streams of their dataset
// matched. The pages of penstock ui and penstock explain --svg show the same pictures.
package planpicture
