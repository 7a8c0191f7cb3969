package disk

const killedFolder = "PENSTOCK_TEST_KILLED_FOLDER"

func writeUntilKilled(string) {}
