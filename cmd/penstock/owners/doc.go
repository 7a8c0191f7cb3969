// Package owners tracks the processes that share a private server. Each owner locks a byte of a
// file in the server's folder, and the kernel releases the lock however the process ends. A server
// can end when its file has no locks, because no other process can use it.
package owners

// File is the name of the file of owners in the folder of a private server.
const File = "owners"
