package main

// kind is how batches are delivered.
type kind int

const (
	overGRPC  kind = iota // the product's Flight server
	overIPC               // an Arrow IPC stream on a socket
	byMapping             // memory that the client maps
	byCopy                // within the server's process: one copy
	inPlace               // within the server's process: summed where they are
)

// Sizes of buffers in bytes.
const (
	largeBuffer  = 4 << 20 // of a socket: what Linux lets TCP grow to
	systemBuffer = -1      // of a Unix socket: the system's default instead of the product's
	wideBuffer   = 1 << 20 // of gRPC: what it collects before it writes, and reads at once
	wideWindow   = 32 << 20
)

// slots is the number of batches that a stream of copied batches has in memory.
const slots = 16

// way is one way to deliver batches. All are served by one process and read by one process of each
// client.
type way struct {
	name    string
	kind    kind
	network string // tcp or unix
	socket  int    // bytes of the socket's buffers; 0: as in the product
	wide    bool   // larger buffers and windows of gRPC
	copied  bool   // byMapping: each batch is copied into the mapped memory; otherwise it lies there
	sum     bool   // the client sums all columns; otherwise it counts rows
	python  bool   // pyarrow reads too
}

// ways are all of them, in the order of their turns.
func ways() []way {
	return []way{
		{name: "gRPC, TCP", network: "tcp", python: true},
		{name: "gRPC, Unix socket", network: "unix", python: true},
		{name: "gRPC, Unix socket, the system's buffer", network: "unix", socket: systemBuffer, python: true},
		{name: "gRPC, TCP, large socket buffers", network: "tcp", socket: largeBuffer, python: true},
		{name: "gRPC, Unix socket, large socket buffers", network: "unix", socket: largeBuffer, python: true},
		{name: "gRPC, TCP, large gRPC buffers", network: "tcp", wide: true},
		{name: "gRPC, Unix socket, large gRPC buffers", network: "unix", wide: true},
		{name: "IPC, TCP", kind: overIPC, network: "tcp"},
		{name: "IPC, Unix socket", kind: overIPC, network: "unix"},
		{name: "IPC, Unix socket, the system's buffer", kind: overIPC, network: "unix", socket: systemBuffer},
		{name: "IPC, TCP, large socket buffers", kind: overIPC, network: "tcp", socket: largeBuffer},
		{name: "IPC, Unix socket, large socket buffers", kind: overIPC, network: "unix", socket: largeBuffer},
		{name: "mapped, copied into slots", kind: byMapping, network: "unix", copied: true},
		{name: "mapped, copied into slots, summed", kind: byMapping, network: "unix", copied: true, sum: true},
		{name: "mapped, lying there", kind: byMapping, network: "unix"},
		{name: "mapped, lying there, summed", kind: byMapping, network: "unix", sum: true},
		{name: "one process: copied once", kind: byCopy},
		{name: "one process: summed", kind: inPlace, sum: true},
	}
}

// request asks a process for a pass.
type request struct {
	Way     string `json:"way"`
	Address string `json:"address"` // of the way
	Form    string `json:"form"`
	Sum     bool   `json:"sum"`
}

// pass is one complete stream, as a process measured it.
type pass struct {
	totals

	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"`   // seconds of user and system time of the process
	Waits   int64   `json:"waits"` // voluntary context switches of the process
	Bytes   int64   `json:"bytes"` // that were delivered
	Error   string  `json:"error"`
}
