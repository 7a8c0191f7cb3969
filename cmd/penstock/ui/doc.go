// Package ui serves web pages that show one or more servers: their streams and what these wait for, their memory and caches,
// their datasets and tables.
//
// The pages are a client of the servers. They have no rights, store or jobs of their own: each request of a browser calls the
// servers with the credentials of the viewer, and nothing is kept when it has been answered. The curves over time are kept in
// the browser. Loading a page changes nothing.
//
// Some pages have forms that change tables, by the actions of the server. A form names the snapshots that its page showed, so that
// the server makes that change once or not at all. [forms] admits only requests that these pages have sent.
//
// A viewer enters in one of two ways. With a [Link], the viewer is the user who started the program: the program prints a
// link that can be opened once and that gives the browser a cookie. Behind a proxy ([ByProxy]), each request carries the bearer token of
// its viewer, which is passed to the servers.
//
// Names and values come from tables and from the servers' clients, and may be hostile: html/template escapes them, after
// characters that do not print have been replaced. The content security policy allows only the scripts and styles of this
// package, and requests to this address.
package ui
