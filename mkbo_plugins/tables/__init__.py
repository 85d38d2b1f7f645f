"""Tables and files of people: read, checked, with every fault named."""
