options(clutch.joins = TRUE)
loadNamespace("clutch", lib.loc = commandArgs(TRUE)[[1L]])$.__fork_server__(commandArgs(TRUE))
