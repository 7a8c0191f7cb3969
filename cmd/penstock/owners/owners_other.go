//go:build !linux && !darwin

package owners

// Owners are the processes that share a private server: none on this system.
type Owners struct{}

// Open returns nil: the server's parent is its only owner.
func Open(string) (*Owners, error) { return nil, nil } //nolint:nilnil // there are none

// Gone returns true.
func (*Owners) Gone() bool { return true }
