loadNamespace("clutch", lib.loc = commandArgs(TRUE)[[1L]])$.__runner__(commandArgs(TRUE))
