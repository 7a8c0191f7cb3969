// Package owners tracks the processes that share a private server. Each of these owners locks a
// byte of a file in the server's folder. The kernel releases the lock when the process ends,
// however it ends. A server can end when no process has a lock in the file, because then no process
// uses the server.
package owners

// File is the name of the file of owners in the folder of a private server.
const File = "owners"
