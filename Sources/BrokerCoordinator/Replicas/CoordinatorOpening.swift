internal import BrokerStaging
internal import BrokerStore

/// The model and the options that a store is opened with: those in force in its log, which may differ from the wanted ones.
struct CoordinatorOpening {
    /// Nil without a shared log.
    let joining: LogJoining?
    let plan: StagingPlan
    let options: CoordinatorOptions

    /// Blocks while a shared log is opened.
    init(_ wanted: StagingPlan, _ options: CoordinatorOptions) throws(StoreError) {
        joining = try LogJoining(options, wanted)
        var inForce = joining?.plan
        var limits = joining?.limits
        if options.keepsJournal {
            inForce = try Store.planInForce(path: options.storePath, unlike: wanted)
            limits = try Store.limitsInForce(path: options.storePath)
        }
        plan = inForce ?? wanted
        var options = options
        limits?.set(in: &options.store)
        // Parts of the file that are not in that model may be in the wanted one.
        if inForce != nil { options.store.removal = .keep }
        self.options = options
    }
}
