// Package owners knows which processes share a private server. Each owner holds a lock in a file of the server's folder; the kernel
// releases it at any end of the process. So a server whose file has no locks can end: nobody else can use it.
package owners

// File is the name of the file of owners in the folder of a private server.
const File = "owners"
