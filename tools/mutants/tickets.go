package main

// ticketMutants are ways to let clients use what was made for others.
func ticketMutants() []mutant {
	flight, cmd := []string{"./flight"}, []string{"./cmd/penstock"}
	return []mutant{
		{"tickets-are-for-everyone", "flight/ticket.go", "\tcase c.Subject == subject:\n", "\tcase c.Subject == subject || subject != \"\":\n", flight},
		{"tickets-name-no-subject", "flight/ticket.go", "\t\t\tc.Subject = subject\n", "\t\t\tc.Subject = subject[:0]\n", flight},
		{"tickets-without-a-subject-stay-valid", "flight/ticket.go", "\tcase c.Subject == subject:\n", "\tcase c.Subject == subject || c.Subject == \"\":\n", flight},
		{"tickets-outlive-credentials", "flight/ticket.go", "\tcase c.Subject == subject:\n", "\tcase c.Subject == subject || subject == \"\":\n", flight},
		{"changed-ticket-keys-are-ignored", "cmd/penstock/entrance.go", "\t\t\ta.ticketKeys.Store(keys)\n", "\t\t\ta.ticketKeys.CompareAndSwap(nil, keys)\n", cmd},
	}
}
