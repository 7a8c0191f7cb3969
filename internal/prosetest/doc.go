// Package prosetest checks comments, messages, pages and names for words and turns of
// phrase that the project does not use. Its rules say what to write instead. The file
// known.txt counts the findings of the folders that are not yet rewritten. A count may
// only fall:
//
//	go test ./internal/prosetest -rewrite
//
// lowers the counts that have fallen and deletes folders without findings.
package prosetest
