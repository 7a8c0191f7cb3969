// Package inbound limits the resources that a gRPC server holds for clients before their requests
// have arrived: open connections, calls that have sent only headers, and parts of messages.
//
// It promises that slow or silent clients cannot keep others out, however many they are: a new
// connection or call takes the place of one of the host that has the most. Requests arrive in time
// or their calls fail. gRPC does not expose the connection of a call; ConnectionOf returns it, so
// that a connection whose client reads nothing can be closed.
//
// A server passes its listener through Listener, admits each call in its tap (Admit), receives the request in its stream
// interceptor (Receive), and describes methods with one answer as streams (Streams), because gRPC receives the requests of
// other methods before any interceptor. Admitted calls end once their request has arrived or their context has ended.
package inbound
