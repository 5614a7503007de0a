//! etcd's methods by name, over [`Client::call`].

use super::client::Client;
use super::error::Error;
use super::wire::{
    AlarmAction, AlarmMember, AlarmRequest, AlarmResponse, AlarmType, AuthEnableRequest, HashKvRequest, HashKvResponse,
    HeaderOnly, Member, MemberAddRequest, MemberAddResponse, MemberIdRequest, MemberListRequest, MemberListResponse,
    MemberUpdateRequest, MembersResponse, MoveLeaderRequest, RangeRequest, RangeResponse, RoleAddRequest,
    StatusRequest, StatusResponse, UserAddRequest, UserGrantRoleRequest,
};
use crate::api::secret::Secret;

impl Client {
    /// The member's own view: version, sizes, leader, raft indexes, learner or not. Needs no quorum.
    pub async fn status(&self) -> Result<StatusResponse, Error> {
        self.call("/etcdserverpb.Maintenance/Status", StatusRequest {}).await
    }

    /// Active alarms. Needs a quorum.
    pub async fn alarms(&self) -> Result<Vec<AlarmMember>, Error> {
        let question = AlarmRequest { action: AlarmAction::Get.into(), member_id: 0, alarm: AlarmType::None.into() };
        let answer: AlarmResponse = self.call("/etcdserverpb.Maintenance/Alarm", question).await?;
        Ok(answer.alarms)
    }

    /// Takes an alarm back.
    pub async fn disarm(&self, alarm: AlarmMember) -> Result<(), Error> {
        let question =
            AlarmRequest { action: AlarmAction::Deactivate.into(), member_id: alarm.member_id, alarm: alarm.alarm };
        self.call::<_, AlarmResponse>("/etcdserverpb.Maintenance/Alarm", question).await.map(drop)
    }

    /// Hash of all keys, values and their history at a revision; 0 is the newest. Needs no quorum, since each member
    /// hashes what it has. etcd before 3.6 leaves `hash_revision` in the answer at 0.
    pub async fn hash_kv(&self, revision: i64) -> Result<HashKvResponse, Error> {
        self.call("/etcdserverpb.Maintenance/HashKV", HashKvRequest { revision }).await
    }

    /// Number of all keys, and the revision in the answer's header. Linearizable reads need a quorum, serializable
    /// ones only this member.
    pub async fn count_keys(&self, serializable: bool) -> Result<RangeResponse, Error> {
        // A range from the zero byte to the zero byte is every key.
        let question = RangeRequest { key: vec![0], range_end: vec![0], limit: 0, serializable, count_only: true };
        self.call("/etcdserverpb.KV/Range", question).await
    }

    /// A read that only succeeds with a quorum, of a key that need not exist. The answer's header holds the revision.
    pub async fn linearizable_read(&self) -> Result<RangeResponse, Error> {
        let question = RangeRequest {
            key: b"health".to_vec(),
            range_end: Vec::new(),
            limit: 1,
            serializable: false,
            count_only: true,
        };
        self.call("/etcdserverpb.KV/Range", question).await
    }

    /// Members of the cluster; linearizable needs a quorum (etcd before 3.5 always answers from the member itself).
    pub async fn member_list(&self, linearizable: bool) -> Result<Vec<Member>, Error> {
        let answer: MemberListResponse =
            self.call("/etcdserverpb.Cluster/MemberList", MemberListRequest { linearizable }).await?;
        Ok(answer.members)
    }

    /// The cluster's id and its members; needs a quorum (etcd before 3.5 always answers from the member itself).
    pub async fn cluster(&self) -> Result<(u64, Vec<Member>), Error> {
        let question = MemberListRequest { linearizable: true };
        let answer: MemberListResponse = self.call("/etcdserverpb.Cluster/MemberList", question).await?;
        Ok((answer.header.map_or(0, |header| header.cluster_id), answer.members))
    }

    /// Adds a member, as a learner or as a voter. Answers with the new member (its name is empty until it starts) and
    /// all members.
    pub async fn member_add(&self, peer_urls: Vec<String>, is_learner: bool) -> Result<MemberAddResponse, Error> {
        self.call("/etcdserverpb.Cluster/MemberAdd", MemberAddRequest { peer_urls, is_learner }).await
    }

    /// Makes a learner a voter. `FailedPrecondition` where it has not caught up or is no learner, `NotFound` where it
    /// is gone.
    pub async fn member_promote(&self, id: u64) -> Result<Vec<Member>, Error> {
        let answer: MembersResponse = self.call("/etcdserverpb.Cluster/MemberPromote", MemberIdRequest { id }).await?;
        Ok(answer.members)
    }

    /// Removes a member. `NotFound` where it is gone already.
    pub async fn member_remove(&self, id: u64) -> Result<Vec<Member>, Error> {
        let answer: MembersResponse = self.call("/etcdserverpb.Cluster/MemberRemove", MemberIdRequest { id }).await?;
        Ok(answer.members)
    }

    /// Changes a member's peer URLs.
    pub async fn member_update(&self, id: u64, peer_urls: Vec<String>) -> Result<Vec<Member>, Error> {
        let answer: MembersResponse =
            self.call("/etcdserverpb.Cluster/MemberUpdate", MemberUpdateRequest { id, peer_urls }).await?;
        Ok(answer.members)
    }

    /// Hands leadership to another voter. Only the leader can; others answer `FailedPrecondition`.
    pub async fn move_leader(&self, target_id: u64) -> Result<(), Error> {
        self.call::<_, HeaderOnly>("/etcdserverpb.Maintenance/MoveLeader", MoveLeaderRequest { target_id })
            .await
            .map(drop)
    }

    /// Adds a user. `FailedPrecondition` where it exists.
    pub async fn user_add(&self, name: &str, password: &Secret) -> Result<(), Error> {
        let question = UserAddRequest { name: name.to_owned(), password: password.expose().to_owned() };
        self.call::<_, HeaderOnly>("/etcdserverpb.Auth/UserAdd", question).await.map(drop)
    }

    /// Adds a role. `FailedPrecondition` where it exists.
    pub async fn role_add(&self, name: &str) -> Result<(), Error> {
        self.call::<_, HeaderOnly>("/etcdserverpb.Auth/RoleAdd", RoleAddRequest { name: name.to_owned() })
            .await
            .map(drop)
    }

    /// Gives a role to a user. Doing it again is no error.
    pub async fn user_grant_role(&self, user: &str, role: &str) -> Result<(), Error> {
        let question = UserGrantRoleRequest { user: user.to_owned(), role: role.to_owned() };
        self.call::<_, HeaderOnly>("/etcdserverpb.Auth/UserGrantRole", question).await.map(drop)
    }

    /// Turns authentication on; user and role `root` must exist and belong together. Doing it again is no error.
    /// Clients must dial again afterwards, with credentials.
    pub async fn auth_enable(&self) -> Result<(), Error> {
        self.call::<_, HeaderOnly>("/etcdserverpb.Auth/AuthEnable", AuthEnableRequest {}).await.map(drop)
    }
}
