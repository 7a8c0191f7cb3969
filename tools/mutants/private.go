package main

// privateMutants are ways in which a private server outlives its owner, or removes what is not its own.
func privateMutants() []mutant {
	cmd := []string{"./cmd/penstock"}
	return []mutant{
		{"private-servers-ignore-their-input", "cmd/penstock/private.go", "\t\tcase <-inputClosed:\n\t\t\treturn\n", "", cmd},
		{"private-servers-ignore-their-parent", "cmd/penstock/private.go", "for os.Getppid() == s.parent {", "for s.parent != 0 {", cmd},
		{"private-folders-may-be-open", "cmd/penstock/private.go", " || stat.Mode().Perm()&0o077 != 0", "", cmd},
		{"private-folders-may-be-full", "cmd/penstock/private.go", "if e.Name() != privateLog || ", "if e.Name() == privateLog && ", cmd},
		{"private-servers-need-tokens", "cmd/penstock/private.go", "tls-client-ca tokens", "tls-client-ca", cmd},
		{"private-servers-remove-the-log-of-their-owner", "cmd/penstock/private.go", "\tdefault:\n\t}\n}", "\tdefault:\n\t\ts.remove()\n\t}\n}", cmd},
	}
}
