package scan

import "github.com/apache/arrow-go/v18/arrow/memory"

// SetScratch changes what gives the memory that does not leave a file's reader.
func (s *Scanner) SetScratch(scratch memory.Allocator) { s.options.Scratch = scratch }
