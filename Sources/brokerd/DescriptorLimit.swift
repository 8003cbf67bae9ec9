import Glibc

/// Descriptors besides those of the connections: those of the store, its WAL, the ledger's reader, the event loop, the
/// standard streams, and connections that are being refused.
private let ownDescriptors = 128

/// Raises the limit of descriptors to the hard limit; the usual soft limit is for programs that use select(2).
///
/// - Returns: a message for the operator when there are still too few.
func raiseDescriptorLimit(for connections: Int) -> String? {
    var limit = rlimit()
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    guard getrlimit(resource, &limit) == 0 else { return nil }
    limit.rlim_cur = limit.rlim_max
    guard setrlimit(resource, &limit) == 0, limit.rlim_cur < rlim_t(connections + ownDescriptors) else { return nil }
    return """
        The system gives \(limit.rlim_cur) descriptors, too few for \(connections) connections; clients beyond that have \
        to wait. Raise the hard limit (`ulimit -Hn`), or lower --connections.
        """
}
