import BrokerCommandLine
import BrokerCoordinator
import BrokerModel
import BrokerSchema
import BrokerServer
import BrokerStaging
import BrokerWire
import Logging

extension Brokerd {
    /// The action of SIGHUP and `admin reload`: the model's files are read again, and applied completely or not at all.
    /// Every change, or the reason why the old model stays, is logged.
    func reloading(
        _ coordinator: Coordinator, _ service: ServiceNotifier, logger: Logger
    ) -> @Sendable (_ notify: @escaping @Sendable (ReloadEnd) -> Void) -> Void {
        let model = model
        return { notify in
            Self.reload(model, in: coordinator, reporting: service, logger: logger) { result in
                switch result {
                case .success(let migration): notify(.applied(migration.lines))
                case .failure(let fault): notify(.refused(fault))
                }
            }
        }
    }

    /// The admin action `migrate`: as a reload, with what becomes of parts that the model no longer has; or what it would do.
    func migrating(
        _ coordinator: Coordinator, _ service: ServiceNotifier, logger: Logger
    ) -> @Sendable (MigrateMessage, _ notify: @escaping @Sendable (Result<[StoreChange], Fault>) -> Void) -> Void {
        let model = model
        return { message, notify in
            let removal = RemovalPolicy(rawValue: message.removedParts.rawValue) ?? .refuse
            guard !message.isDryRun else {
                return coordinator.compare(removal: removal, reading: { Self.read(model) }, notify: notify)
            }
            Self.reload(model, removal: removal, in: coordinator, reporting: service, logger: logger) {
                notify($0.map(\.changes))
            }
        }
    }

    /// - Parameter removal: nil for the option of the start.
    private static func reload(
        _ model: [String], removal: RemovalPolicy? = nil, in coordinator: Coordinator,
        reporting service: ServiceNotifier,
        logger: Logger, _ notify: @escaping @Sendable (Result<StoreMigration, Fault>) -> Void
    ) {
        service.reloadBegan()
        coordinator.reload(removal: removal) {
            read(model)
        } notify: { result in
            switch result {
            case .success(let migration):
                for line in migration.lines { logger.notice("\(line)") }
                logger.notice("The model was reloaded, and is in effect.")
                notify(result)
                service.reloadEnded(nil)
            case .failure(let fault):
                logger.error("The model could not be reloaded, and the old one stays in effect: \(fault.message)")
                notify(result)
                service.reloadEnded(fault.message)
            }
        }
    }

    private static func read(_ paths: [String]) -> Result<StagingPlan, Fault> {
        let file = ModelFile(paths)
        do throws(ModelError) {
            return .success(try StagingPlan(ModelReader.read(try file.document())))
        } catch {
            let faults = error.faults.map(\.description).joined(separator: "; ")
            return .failure(Fault(.validationFailed, "The model \(file.name) cannot be used: \(faults)"))
        }
    }
}
